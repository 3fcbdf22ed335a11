"""Reading results: runs side by side, one page about a run or a sweep, model cards."""
