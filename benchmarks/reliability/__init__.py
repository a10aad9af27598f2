"""What must hold of every input, asked of real code, of its mutations and of generated programs."""
