"""The local review page: an expert confirms or corrects the labels of a site, the worst first."""
