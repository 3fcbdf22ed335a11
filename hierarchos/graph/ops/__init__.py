"""The operations, one family in each file; `hierarchos.graph.functions` is how they are used."""
