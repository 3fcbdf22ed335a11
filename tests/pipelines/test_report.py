"""`hierarchos report`: one page that loads nothing, well formed, with everything that a run or a sweep told."""
from __future__ import annotations

import json
import math
import xml.etree.ElementTree as tree

import pytest

from pipelines.reading.report.scale import Scale
from pipelines.reading.report.svg import Curve, line_chart, thinned
from tests.bad_input.table import SHORT, SIZE

LOADS = ("http://", "https://", "src=", "@import", "url(", "<script", "<link")


def page_at(path) -> str:
    """The text of a page that loads nothing and whose every picture is well formed."""
    text = path.read_text(encoding="utf-8")
    assert not [word for word in LOADS if word in text.partition("<h2>Origin")[0]]
    body = "<body>" + text.partition("<body>")[2].rpartition("</html>")[0]
    tree.fromstring(body.replace("class=best", 'class="best"'))
    return text


def test_page_of_a_run_has_curves_texts_time_memory_and_settings(place):
    place.write("rows.jsonl", "".join(json.dumps({"text": f"{n} and {n} make {n + n} <b>."}) + "\n" for n in range(40)))
    words = ("train", *SIZE, *SHORT, "data=jsonl", "data.path=rows.jsonl", "data.validation_fraction=0.3", "run.dir=run",
             "generate.prompt='<i>one & two'", "run.profile=true", "data.max_rows=39")
    assert place.call(*words).status == 0
    ended = place.call("report", "run")
    assert (ended.status, ended.out) == (0, "run/report.html\n")
    text = page_at(place.path / "run/report.html")
    for title in ("Loss", "Gradient norm", "Learning rate", "Time by stage", "GPU time of a step of 2 x 16 tokens",
                  "Device memory of training"):
        assert f">{title}" in text, title
    assert "stopped after data.max_rows=39" in text and "&lt;i&gt;one &amp; two" in text
    assert "<td>train.steps</td><td>null</td><td>4</td>" in text
    assert (place.path / "run/stages/train/kernels.json").exists()


def test_page_of_a_sweep_has_pictures_of_its_settings_and_the_job_that_failed(place):
    assert place.call("fake", "-m", "train.learning_rate=1,13,2", "tokenizer.vocab_size=300,400").status == 3
    [folder] = place.path.glob("outputs/sweeps/*")
    ended = place.call("report", str(folder), "--to", "page.html")
    assert (ended.status, ended.out) == (0, "page.html\n")
    text = page_at(place.path / "page.html")
    assert "Parallel coordinates" in text and text.count("<polyline") == 4 and text.count('class="shade0 best"') == 1
    assert "tokenizer.vocab_size (down), train.learning_rate (across)" in text and "<td>failed</td>" in text


def test_page_of_a_failed_run_begins_with_the_reason(place):
    assert place.call("fake", "train.learning_rate=13", "run.dir=run").status == 3
    assert place.call("report", "run").status == 0
    assert "the run is failed: learn: the loss is not a number at step 7" in page_at(place.path / "run/report.html")


@pytest.mark.parametrize("words, message", [
    ([], "which run or sweep?                        command line\n  try  hierarchos report outputs/train/DATE_TIME_ID\n"),
    (["mine", "mine"], "a report is about one run or one sweep     command line\n  try  hierarchos report outputs/train/DATE_TIME_ID\n"),
    (["mina"], "mina is neither a run nor a sweep          command line\n  did you mean  mine ?\n"),
    (["mine", "--to"], "--to needs a file                          command line\n  try  --to report.html\n"),
    (["mine", "--to", "no/page.html"], "no/page.html cannot be written: there is no folder no\n  --to\n"),
    (["mine", "--to", "configs"], "configs cannot be written: it is a folder  --to\n"),
])
def test_wrong_words(place, words, message):
    assert place.call("fake", "run.dir=mine").status == 0
    ended = place.call("report", *words)
    assert (ended.status, ended.err) == (2, message)


def test_ticks_are_round_and_inside():
    assert Scale.of([0.13, 0.87], 0, 100).ticks() == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert Scale.of([1e-5, 1e-1], 0, 100).ticks() == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2, 1e-1])
    for low, high in [(0, 0), (-3, -3), (1e-9, 2e-9), (-1, 1e6), (5, 5000)]:
        scale = Scale.of([low, high], 10, 20)
        assert scale.ticks() and all(10 - 1e-6 <= scale.place(tick) <= 20 + 1e-6 for tick in scale.ticks())


def test_long_curves_keep_their_peaks_and_what_is_not_finite_is_left_out():
    points = [(float(step), math.sin(step)) for step in range(20_000)]
    points[7777] = (7777.0, 50.0)
    assert len(thinned(points)) <= 600 and (7777.0, 50.0) in thinned(points)
    assert line_chart("t", [Curve("a", [(1, math.nan)])]) == "" and "nan" not in line_chart("t", [Curve("a", [(1, math.nan), (2, 1.0)])])
