"""One HTML file about a run or a sweep: everything inline, nothing loaded, no scripts."""
