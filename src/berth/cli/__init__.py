"""The command line: arguments in, tables or JSON out, errors on standard error."""
