"""The command line: prints tables or JSON to standard output and errors to standard error."""
