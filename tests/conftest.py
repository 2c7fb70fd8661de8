"""Makes `handmade` importable from all test folders."""
