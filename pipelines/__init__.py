"""What a person runs: stages, the runner and the command line."""
