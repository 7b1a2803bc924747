"""What every generated dialect shares: errors, limits, wrapper types, containers and the decimal codec."""
