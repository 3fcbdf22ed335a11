"""The stages that ship: name -> class. Imported only when a pipeline has them."""

STAGES = {
    "acquire": "pipelines.stages.coherent.Acquire",
    "tokenize": "pipelines.stages.tokenize.Tokenize",
    "train": "pipelines.stages.coherent.Train",
    "export": "pipelines.stages.coherent.Export",
    "evaluate": "pipelines.stages.coherent.Evaluate",
    "generate": "pipelines.stages.coherent.Generate",
    "choices": "pipelines.stages.choices.Choices",
    "merge": "pipelines.stages.merge.Merge",
    "unmerge": "pipelines.stages.merge.Unmerge",
    "upload": "pipelines.stages.upload.Upload",
    "convert": "pipelines.stages.convert.Convert",
}
