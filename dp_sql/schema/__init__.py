"""What the data owner declares: a YAML file, validated, as a frozen catalog."""
