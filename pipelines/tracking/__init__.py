"""Trackers of experiments, all optional: TensorBoard, MLflow and Trackio, each with files on this machine only."""
