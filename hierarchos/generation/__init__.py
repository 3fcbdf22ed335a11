"""Text generation: one recorded program a token, keys and values cached on the device, sampling seeded by position."""
