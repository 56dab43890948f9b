"""Nothing is wrong here."""
