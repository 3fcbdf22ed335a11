"""From files to batches, one module a step:

    rows      = read_rows(paths, ReadOptions(), report)              sources.py   files of text, JSON, CSV, Parquet; hub.py
    examples  = read_examples(rows, RowOptions(), report)            formats.py   columns to prompts, conversations, token ids
    tokenizer = train_tokenizer(texts, 1024) or load_tokenizer(path) tokenizer_training.py, tokenizer.py
    file      = encode_examples(examples, tokenizer, EncodeOptions(max_length=128), report)      encode.py -> token_file.py
    train, validation = split_validation(file, 0.05)                 splitting.py
    stream    = BatchStream(train, BatchOptions())                   batches.py over packing.py
    batch     = stream.batch(step)

`RowReport` (rows.py) holds what was read, left out and cut, for the manifest. Wrong input raises `hierarchos.errors.UserError`.
"""
