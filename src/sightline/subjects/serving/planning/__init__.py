"""What a server would do at other settings: costs of its steps, its scheduler, and its clients."""
