"""What lies between the native module and the Python API: wake-ups, waiting, results, log lines."""
