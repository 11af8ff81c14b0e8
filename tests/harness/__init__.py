"""What the behaviour tests share: a real server, a small client, and eyes on the kernel."""
