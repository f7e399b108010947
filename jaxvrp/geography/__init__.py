"""Where places lie: degrees on the earth and lengths, and travel along streets, from files or shortest ways."""
