"""The speed of torchlint as it is used, and of other tools."""
