"""`make bench`: measures, judges, reports. See bench/README.md."""
