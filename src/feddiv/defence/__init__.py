"""What stands between the replies that were checked and the merge: clients may lie."""
