"""Trains, fine-tunes and runs Hugging Face text Transformers on any GPU with a Vulkan driver."""

__version__ = "0.1.0"
