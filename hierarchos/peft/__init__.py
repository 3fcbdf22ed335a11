"""Adapters: small trained matrices beside frozen weights, in the files of Hugging Face PEFT."""
