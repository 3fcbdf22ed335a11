"""Many runs from one command: jobs are composed and checked first and written down, then carried out, one or several at a time."""
