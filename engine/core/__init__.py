"""The process that decides: takes requests in, steps the model, hands tokens out."""
