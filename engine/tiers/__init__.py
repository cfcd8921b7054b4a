"""Where a page goes when it leaves the device pool: host memory, disk, a remote store."""
