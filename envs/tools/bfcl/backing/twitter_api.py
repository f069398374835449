"""TwitterAPI: posting, commenting and following."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from envs.tools.bfcl.backing.backing import MAX_RECORDS, Backing, Integer, Names, Result, Text, refuse
from envs.tools.tool import tool

# The account of a row that does not name one.
USERNAME, PASSWORD = "user", "password"


class TwitterAPI(Backing):
    """Tweets, comments, retweets and the account of one user. Whatever changes something needs a login."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.username: str = config.get("username", USERNAME)
        self.password: str = config.get("password", PASSWORD)
        self.is_authenticated: bool = config.get("authenticated", False)
        self.tweets: dict[int, dict[str, Any]] = {
            int(key): deepcopy(tweet) for key, tweet in config.get("tweets", {}).items()
        }
        self.comments: dict[int, list[dict[str, str]]] = {
            int(key): [
                {"username": each.get("username", ""), "content": each.get("content", each.get("comment", ""))}
                for each in comments
            ]
            for key, comments in config.get("comments", {}).items()
        }
        self.retweets: dict[str, list[int]] = {name: list(ids) for name, ids in config.get("retweets", {}).items()}
        self.following_list: list[str] = list(config.get("following_list", ()))
        self.tweet_counter: int = config.get("tweet_counter", len(self.tweets))

    @tool
    def authenticate_twitter(self, username: Text, password: Text) -> Result:
        """Log in. A wrong password changes nothing."""
        is_right = (username, password) == (self.username, self.password)
        self.is_authenticated |= is_right
        return {"authentication_status": is_right}

    @tool
    def comment(self, tweet_id: Integer, comment_content: Text) -> Result:
        """Comment on a tweet."""
        if fault := self._fault(tweet_id):
            return fault
        if sum(map(len, self.comments.values())) >= MAX_RECORDS:
            return refuse("there are too many comments")
        comment = {"username": self.username, "content": comment_content}
        self.comments.setdefault(tweet_id, []).append(comment)
        return {"comment_status": f"The comment on tweet {tweet_id} is posted."}

    @tool
    def follow_user(self, username_to_follow: Text) -> Result:
        """Follow a user."""
        if not self.is_authenticated:
            return _no_login()
        if username_to_follow in self.following_list:
            return {"follow_status": False}
        if len(self.following_list) >= MAX_RECORDS:
            return refuse("too many users are followed")
        self.following_list.append(username_to_follow)
        return {"follow_status": True}

    @tool
    def get_tweet(self, tweet_id: Integer) -> Result:
        """Return a tweet."""
        return self.tweets.get(tweet_id) or _no_tweet(tweet_id)

    @tool
    def get_tweet_comments(self, tweet_id: Integer) -> Result:
        """List the comments on a tweet."""
        if tweet_id not in self.tweets:
            return _no_tweet(tweet_id)
        return {"comments": self.comments.get(tweet_id, [])}

    @tool
    def get_user_stats(self, username: Text) -> Result:
        """Count a user's tweets and retweets, and whom the user follows, which is known of the own account only."""
        return {
            "tweet_count": sum(tweet.get("username") == username for tweet in self.tweets.values()),
            "following_count": len(self.following_list) if username == self.username else 0,
            "retweet_count": len(self.retweets.get(username, ())),
        }

    @tool
    def get_user_tweets(self, username: Text) -> Result:
        """List a user's tweets."""
        return {"user_tweets": [each for each in self.tweets.values() if each.get("username") == username]}

    @tool
    def list_all_following(self) -> Result:
        """List the users whom the account follows."""
        return {"following_list": self.following_list} if self.is_authenticated else _no_login()

    @tool
    def mention(self, tweet_id: Integer, mentioned_usernames: Names) -> Result:
        """Mention users in a tweet that exists."""
        if fault := self._fault(tweet_id):
            return fault
        mentions = self.tweets[tweet_id].setdefault("mentions", [])
        if len(mentions) + len(mentioned_usernames) > MAX_RECORDS:
            return refuse("the tweet has too many mentions")
        mentions.extend(mentioned_usernames)
        return {"mention_status": f"Mentions are added to tweet {tweet_id}."}

    @tool
    def post_tweet(self, content: Text, tags: Names = [], mentions: Names = []) -> Result:  # noqa: B006
        """Post a tweet."""
        if not self.is_authenticated:
            return _no_login()
        if len(self.tweets) >= MAX_RECORDS:
            return refuse("the account has too many tweets")
        tweet = {
            "id": self.tweet_counter,
            "username": self.username,
            "content": content,
            "tags": list(tags),
            "mentions": list(mentions),
        }
        self.tweets[self.tweet_counter] = tweet
        self.tweet_counter += 1
        return tweet

    @tool
    def posting_get_login_status(self) -> Result:
        """Say whether the account is logged in."""
        return {"login_status": self.is_authenticated}

    @tool
    def retweet(self, tweet_id: Integer) -> Result:
        """Retweet a tweet, once."""
        if fault := self._fault(tweet_id):
            return fault
        ids = self.retweets.setdefault(self.username, [])
        if tweet_id in ids:
            return {"retweet_status": f"Tweet {tweet_id} was already retweeted."}
        ids.append(tweet_id)
        return {"retweet_status": f"Tweet {tweet_id} is retweeted."}

    @tool
    def search_tweets(self, keyword: Text) -> Result:
        """Find tweets by a keyword in content or tags, in any case."""
        word = keyword.lower()
        return {
            "matching_tweets": [
                tweet
                for tweet in self.tweets.values()
                if word in str(tweet.get("content", "")).lower()
                or any(word in str(tag).lower() for tag in tweet.get("tags", ()))
            ]
        }

    @tool
    def unfollow_user(self, username_to_unfollow: Text) -> Result:
        """Stop following a user."""
        if not self.is_authenticated:
            return _no_login()
        if username_to_unfollow not in self.following_list:
            return {"unfollow_status": False}
        self.following_list.remove(username_to_unfollow)
        return {"unfollow_status": True}

    def _fault(self, tweet_id: int) -> Result | None:
        if not self.is_authenticated:
            return _no_login()
        return None if tweet_id in self.tweets else _no_tweet(tweet_id)


def _no_login() -> Result:
    return refuse("the account is not logged in")


def _no_tweet(tweet_id: int) -> Result:
    return refuse(f"there is no tweet {tweet_id}")
