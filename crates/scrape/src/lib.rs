//! Scraping: targets, pools and scrape loops.
