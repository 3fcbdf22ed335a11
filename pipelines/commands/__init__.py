"""Commands beside the pipelines: each module has `run(words) -> status`, and its docstring is its help."""
