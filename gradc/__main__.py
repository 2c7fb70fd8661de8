"""`python -m gradc` is the command `gradc`."""

from gradc.cli.app import run

if __name__ == "__main__":
    run()
