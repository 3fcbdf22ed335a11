"""Where each public complaint about other trainers (BR01 to BR40) is tested here; missing numbers are complaints of another kind; BR39
(worth it?) is answered by `hierarchos bench`, BR40 (readable?) by the size of files."""
from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
P, B = "pipelines/", "bad_input/"
TESTS = {
    "BR01 a misspelled key gets advice that makes it worse": (B + "test_config.py", "test_no_message_ever_advises_a_plus"),
    "BR02 unknown keys in YAML are dropped": (B + "test_config.py", "test_wrong_settings_are_told_before_anything_starts"),
    "BR03 an experiment without its package line does nothing": (P + "test_command_line.py",
                                                                 "test_experiment_applies_with_and_without_its_package_line"),
    "BR04 a wrong type is noticed late": (B + "test_config.py", "test_wrong_settings_are_told_before_anything_starts"),
    "BR05 a missing value surfaces late": (B + "test_config.py", "test_wrong_settings_are_told_before_anything_starts"),
    "BR06 runs of one second share a directory": (P + "test_sweep.py", "test_200_starts_in_the_same_second_make_200_directories"),
    "BR07 a sweep cannot be resumed": (P + "test_sweep.py",
                                       "test_sweep_of_24_jobs_that_is_killed_twice_ends_with_24_rows_and_no_job_run_twice"),
    "BR08 a failing job leaves an empty log": (P + "test_sweep.py", "test_failing_job_is_one_line_with_its_traceback_in_its_log"),
    "BR11 scientific notation becomes text": (P + "test_command_line.py", "test_scientific_notation_is_a_number_everywhere"),
    "BR14 a wrong column name": (B + "test_rows.py", "test_rows_that_cannot_be_used"),
    "BR15 mixed types or null in one row": (B + "test_rows.py", "test_rows_that_cannot_be_used"),
    "BR16 encodings": ("data/test_sources.py", "test_files_are_utf8_whatever_the_locale"),
    "BR17 everything is masked": ("data/test_encode.py", "test_everything_masked_is_refused_with_one_row_and_where_it_was_cut"),
    "BR19 roles must alternate": (B + "test_rows.py", "test_rows_that_cannot_be_used"),
    "BR20 the model never stops": ("test_user_pains.py", "test_model_that_was_trained_to_stop_stops"),
    "BR21 the end of a turn is not trained": ("test_user_pains.py", "test_end_of_turn_that_was_trained_is_the_one_that_stops"),
    "BR22 two start tokens, or none": ("data/test_encode.py", "test_there_is_never_more_than_one_bos"),
    "BR23 accumulation changes the result": ("test_user_pains.py", "test_accumulation_changes_nothing"),
    "BR24 resuming is not exact": ("training/test_loop.py", "test_resume_equals_uninterrupted_with_dropout_accumulation_and_epochs"),
    "BR25 resuming an adapter trains the base": ("peft/test_training.py", "test_resume_equals_uninterrupted"),
    "BR26 resuming under other settings says nothing": (P + "test_runs.py", "test_resume_under_other_settings_asks_first"),
    "BR27 killed while saving": (B + "test_faults.py", "test_kill_after_half_of_a_checkpoint_loses_only_that_one"),
    "BR28 will it fit": (P + "test_plan.py", "test_run_that_does_not_fit_has_three_settings_that_would"),
    "BR29 a software device is chosen": ("vulkan/test_selection.py",
                                         "test_auto_prefers_discrete_then_integrated_then_virtual_and_skips_the_unusable"),
    "BR30 an allocation is refused with free memory": ("test_user_pains.py", "test_buffer_beyond_the_device_is_refused_with_numbers"),
    "BR32 a lost device ends the process": (P + "test_runs.py", "test_lost_device_has_a_status_of_its_own"),
    "BR33 garbage on one driver": (P + "test_doctor.py", "test_wrong_kernel_is_named_and_the_device_refused"),
    "BR35 nobody can tell where it computes": ("test_user_pains.py", "test_every_run_says_first_where_it_computes"),
    "BR36 merging with tied embeddings": ("peft/test_files.py", "test_a_merged_package_computes_what_base_and_adapter_do"),
}


@pytest.mark.parametrize("pain", TESTS)
def test_every_complaint_has_its_test(pain):
    path, name = TESTS[pain]
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), f"{pain}: {path} has no {name}"
