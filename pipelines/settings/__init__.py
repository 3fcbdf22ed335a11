"""From words and files to a checked `Config`: every mistake is told, with its place, before anything starts."""
