"""Makes `handmade` and its like importable from all test folders; adds `--update-golden`."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the expected texts instead of comparing with them",
    )
