"""Routes of other servers that clients may try, and why they are not here."""
