"""The Hierarchos model, revision coherent-v9: a recurrent language model with a slow manager, a fast worker and a learned memory."""
