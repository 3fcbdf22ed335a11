"""Training of coherent-v9: chunks with carried state, its own schedule and the readiness of the memory's writer."""
