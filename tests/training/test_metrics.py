"""The metrics file of a resumed run has the lines of an unbroken one."""
from hierarchos.training.metrics import MetricsFile, read_metrics, without_timing


def test_rows_after_the_checkpoint_are_dropped_on_resume(tmp_path):
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path)
    for step in range(1, 6):
        first.write(step=step, loss=1 / step, seconds=0.1)
    path.open("a").write('{"step": 6, "lo')                 # a kill cut this line
    resumed = MetricsFile(path, keep_until=3)
    resumed.write(step=4, loss=0.25, seconds=9.9)
    rows = read_metrics(path)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert without_timing(rows)[-1] == {"step": 4, "loss": 0.25}


def test_a_fresh_run_starts_an_empty_file(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    MetricsFile(tmp_path / "metrics.jsonl").close()
    assert read_metrics(tmp_path / "metrics.jsonl") == []
