"""coherent-v9 on a device: programs replayed for all tokens of a chunk. Training and generation stand on it; models know nothing of it."""
