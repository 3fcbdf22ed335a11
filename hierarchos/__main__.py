"""`python -m hierarchos ARGUMENTS`: the command line, where its script is not at hand. The one module here that looks upwards."""
import sys

from pipelines.main import main

if __name__ == "__main__":
    sys.exit(main())
