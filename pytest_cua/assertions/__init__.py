"""What a test asserts: `expect(...)`, areas and baselines, and whether anything was asserted at all."""
