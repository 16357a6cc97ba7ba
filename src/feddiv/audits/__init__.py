"""Label audits: which labels of a site are worth an expert's time, and how sure that is."""
