"""The stages that ship: name -> class. Imported only when a pipeline has them."""

STAGES = {
    "acquire": "pipelines.stages.acquire.Acquire",
    "tokenize": "pipelines.stages.tokenize.Tokenize",
    "train": "pipelines.stages.train.Train",
    "export": "pipelines.stages.export.Export",
    "evaluate": "pipelines.stages.evaluate.Evaluate",
    "generate": "pipelines.stages.generate.Generate",
    "choices": "pipelines.stages.choices.Choices",
    "merge": "pipelines.stages.merge.Merge",
    "unmerge": "pipelines.stages.merge.Unmerge",
}
