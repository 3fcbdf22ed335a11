"""Other containers read as Hugging Face packages."""
