"""Hugging Face packages: config.json, safetensors (single or sharded) and the files beside them. Knows no models and no devices."""
