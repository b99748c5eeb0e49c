"""Plans for requests, their inspection, the capacity for instances, and the merge of offers."""
