"""What tests share: sample files and memories, cases, servers, databases."""
