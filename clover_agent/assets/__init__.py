"""Files that the product places into sandboxes."""
