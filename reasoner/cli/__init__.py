"""The command line: thin commands around the API. Nothing here is imported by the rest of the package."""
