"""Text from coherent-v9: sessions with carried state, sampling, chat, the state file, writes to the fast memory."""
