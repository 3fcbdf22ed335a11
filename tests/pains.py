"""Where each public complaint about other trainers (BR01 to BR40; numbers that lack are complaints of another kind) is tested here.

    python -m tests.pains            the table
    python -m pytest -k BR07         the tests of one complaint
"""
from __future__ import annotations

P, B = "pipelines/", "bad_input/"
NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8, 11, 14, 15, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 32, 33, 35, 36, 39, 40)
WRONG = B + "test_config.py::test_wrong_settings_are_told_before_anything_starts"
ROWS = B + "test_rows.py::test_rows_that_cannot_be_used"
DEVICES = B + "test_devices.py::test_devices_that_cannot_be_used"
# number: the complaint, then tests; [...] is a row of a table of wrong inputs
TESTS: dict[int, tuple[str, ...]] = {
    1: ("a misspelled key gets advice that makes it worse", B + "test_config.py::test_no_message_ever_advises_a_plus",
        f"{WRONG}[unknown key]"),
    2: ("unknown keys in YAML are dropped", f"{WRONG}[unknown keys at several depths]"),
    3: ("an experiment without its package line does nothing",
        P + "test_command_line.py::test_experiment_applies_with_and_without_its_package_line"),
    4: ("a wrong type is noticed late", f"{WRONG}[text for a number]", f"{WRONG}[fraction for a whole number]",
        f"{WRONG}[below its range]"),
    5: ("a missing value surfaces late", f"{WRONG}[missing values]", f"{WRONG}[a required value]"),
    6: ("runs of one second share a directory", P + "test_runs.py::test_eight_runs_started_at_once_get_eight_directories",
        P + "test_sweep.py::test_200_starts_in_the_same_second_make_200_directories"),
    7: ("a sweep cannot be resumed", P + "test_sweep.py::test_killed_sweep_is_continued_by_the_same_command",
        P + "test_sweep.py::test_sweep_of_24_jobs_that_is_killed_twice_ends_with_24_rows_and_no_job_run_twice"),
    8: ("a failing job leaves an empty log", P + "test_sweep.py::test_failing_job_is_one_line_with_its_traceback_in_its_log",
        P + "test_sweep.py::test_fail_fast_stops_at_the_failure"),
    11: ("scientific notation becomes text", P + "test_command_line.py::test_scientific_notation_is_a_number_everywhere",
         f"{WRONG}[text that YAML reads as something else]"),
    14: ("a wrong column name", f"{ROWS}[unknown columns]", f"{ROWS}[text read as instructions]",
         f"{ROWS}[messages declared as instructions]"),
    15: ("mixed types or null in one row", f"{ROWS}[number in a text column]", f"{ROWS}[null in a text column]", f"{ROWS}[truncated JSON]",
         f"{ROWS}[blank lines count as lines]", P + "test_stages.py::test_skipped_rows_are_counted_in_the_manifest"),
    16: ("encodings", "data/test_sources.py::test_files_are_utf8_whatever_the_locale",
         "data/test_sources.py::test_a_byte_order_mark_is_no_part_of_the_text", f"{ROWS}[Windows-1252 bytes]"),
    17: ("everything is masked", "data/test_encode.py::test_everything_masked_is_refused_with_one_row_and_where_it_was_cut",
         "test_user_pains.py::test_prompts_longer_than_a_sequence_do_not_mask_everything_in_silence"),
    19: ("roles must alternate", f"{ROWS}[two user turns in a row]", f"{ROWS}[chat template that refuses the system turn]"),
    20: ("the model never stops", "test_user_pains.py::test_model_that_was_trained_to_stop_stops"),
    21: ("the end of a turn is not trained", "test_user_pains.py::test_end_of_turn_that_was_trained_is_the_one_that_stops"),
    22: ("two start tokens, or none", "data/test_encode.py::test_there_is_never_more_than_one_bos"),
    23: ("accumulation changes the result", "test_user_pains.py::test_accumulation_changes_nothing"),
    24: ("resuming is not exact", "training/test_loop.py::test_resume_equals_uninterrupted_with_dropout_accumulation_and_epochs"),
    25: ("resuming an adapter trains the base", "peft/test_training.py::test_resume_equals_uninterrupted",
         P + "test_adapters.py::test_a_run_that_was_interrupted_ends_as_one_that_was_not"),
    26: ("resuming under other settings says nothing", P + "test_runs.py::test_resume_under_other_settings_asks_first"),
    27: ("killed while saving", B + "test_faults.py::test_kill_after_half_of_a_checkpoint_loses_only_that_one",
         B + "test_faults.py::test_run_that_broke_says_so_keeps_its_checkpoints_and_continues_to_the_same_bits"),
    28: ("will it fit", P + "test_plan.py::test_run_that_does_not_fit_has_three_settings_that_would",
         "data/test_batches.py::test_the_longest_batch_and_all_shapes_are_known_before_the_first_step"),
    29: ("a software device is chosen",
         "vulkan/test_selection.py::test_auto_prefers_discrete_then_integrated_then_virtual_and_skips_the_unusable",
         "test_user_pains.py::test_every_run_says_first_where_it_computes"),
    30: ("an allocation is refused with free memory", "test_user_pains.py::test_buffer_beyond_the_device_is_refused_with_numbers"),
    32: ("a lost device ends the process", P + "test_runs.py::test_lost_device_has_a_status_of_its_own",
         "vulkan/test_recording.py::test_waiting_has_a_limit",
         "vulkan/test_recording.py::test_long_recordings_are_cut_into_bounded_parts_with_the_same_result"),
    33: ("garbage on one driver", P + "test_doctor.py::test_wrong_kernel_is_named_and_the_device_refused"),
    35: ("nobody can tell where it computes", "test_user_pains.py::test_every_run_says_first_where_it_computes",
         "test_user_pains.py::test_words_that_need_no_device_load_no_vulkan", DEVICES),
    36: ("merging with tied embeddings", "peft/test_files.py::test_a_merged_package_computes_what_base_and_adapter_do"),
    39: ("training that completes, is right, and is worth it", "peft/test_training.py::test_the_loss_falls",
         "peft/test_files.py::test_an_adapter_loads_in_peft_with_the_same_values",
         P + "test_adapters.py::test_finetune_leaves_an_adapter_that_the_other_pipelines_take",
         P + "test_bench_lora.py::test_slower_is_called_slower_beside_each_format",
         P + "test_bench_lora.py::test_bench_asks_peft_for_both_formats",
         P + "test_bench_lora.py::test_peft_itself_on_the_processor_in_both_formats"),
    40: ("readers distrust what they cannot read", "test_pains_index.py::test_files_can_be_read_in_one_sitting",
         "test_pains_index.py::test_every_binary_has_its_source"),
}


def numbers_of(path: str, name: str, row: str) -> list[str]:
    """The complaints that a test, at `path` below tests/, belongs to; row: its parameters as pytest writes them, or ""."""
    names = {f"{path}::{name}", f"{path}::{name}[{row}]"} if row else {f"{path}::{name}"}
    return [f"BR{number:02d}" for number, (_, *tests) in TESTS.items() if names & set(tests)]


def main() -> None:
    """A line for each test."""
    for number, (complaint, *tests) in TESTS.items():
        for test in tests:
            print(f"BR{number:02d}  {complaint:<58}  tests/{test}")


if __name__ == "__main__":
    main()
