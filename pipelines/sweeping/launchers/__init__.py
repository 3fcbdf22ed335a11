"""What starts a job of a sweep: processes of our own, joblib, submitit (Slurm), Ray."""
